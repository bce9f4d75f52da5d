"""Restrictions made from alerts: who must not do what until when, and a service that answers whether an event is allowed."""
