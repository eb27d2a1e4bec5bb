from hypothesis import settings

# Kernels compile on first use, which no deadline allows for.
settings.register_profile("hotset", deadline=None)
settings.load_profile("hotset")
