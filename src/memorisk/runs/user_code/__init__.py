"""Code that a user names or installs: `functions` (``module:function``), their `modules`, `plugins` of packages."""
