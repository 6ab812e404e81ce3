"""The one chart renderer: data → inline SVG as a string. Colours are CSS variables, words are labels."""
