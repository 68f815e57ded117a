"""The paper's experiments, each redone by one command (``gemmed reproduce``)."""
