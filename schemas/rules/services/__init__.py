"""Services: `service_rules` judges one alone, `template_rules` and `measure_rules` what its replicas are."""
