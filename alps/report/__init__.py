"""What people look at: tables and charts."""
