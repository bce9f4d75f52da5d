"""What follows the logs of an engine: terminals, chats, webhooks, databases and restrictions get its alerts."""
