"""Services: `service_rules` judges one alone, `template_rules` what its replicas are."""
