"""The dashboard: pages rendered by the server, in the process of the control plane, beside its REST interface.

``routes.mount(app, context)`` adds them. They read the same rows and ask the same engine as REST does, as the principal
of their session; forms and links do everything, a script of ours and htmx keep pages current where there is JavaScript.
"""
