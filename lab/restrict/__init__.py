"""From alerts to restrictions: who may not do what, until when, and a service that is asked."""
