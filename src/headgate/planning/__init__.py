"""From statements to a network: ``bind``, ``optimize``, ``lower``, each in the module of its name."""
