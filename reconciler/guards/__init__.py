"""What may stop a plan before it is carried out."""
