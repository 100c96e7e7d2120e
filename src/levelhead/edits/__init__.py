"""What can be changed in a model: small frozen values at named sites."""
