"""Colours that colour-blind people can tell apart: Okabe and Ito's palette, "Color Universal Design", 2008."""

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, YELLOW, GREY = "#56B4E9", "#CC79A7", "#F0E442", "#8A8A8A"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW, GREY)
FAINT = "rgba(138, 138, 138, 0.25)"
