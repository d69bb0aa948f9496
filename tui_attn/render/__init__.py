"""Pictures without a screen: cells, scales, colours, grid lines, thumbnails."""
