"""REST of the control plane, over FastAPI: ``make_app(Context(...))``. ``shapes`` says what goes in and comes out."""
