"""REST of the control plane on Starlette: ``make_app(ServiceContext(...))``. Bodies are ``control.schemas``."""
