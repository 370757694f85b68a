"""Policies: small networks that map observations to actions."""
