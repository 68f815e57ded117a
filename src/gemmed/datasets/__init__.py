from .ring import RingData, make_ring

__all__ = ["RingData", "make_ring"]
