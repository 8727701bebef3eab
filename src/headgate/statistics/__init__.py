"""Statistics of streams, operators and predicates: estimators, regression of tick times, profile files."""
