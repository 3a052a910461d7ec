"""Charts of reports, drawn as SVG or small pictures: bars, lines, heat maps, and figures with captions around them."""
