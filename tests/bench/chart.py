"""Draws charts as SVG."""

import html

FONT = 'font-family="sans-serif" font-size="12"'


class Chart:
    def __init__(self, width, height, title):
        self.size = width, height
        self.items = []
        self.text(8, 18, title, weight="bold")

    def text(self, x, y, text, anchor="start", weight="normal"):
        self.items.append(
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(text)}</text>')

    def line(self, x1, y1, x2, y2, color="#ddd"):
        self.items.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" '
                          f'stroke="{color}"/>')

    def dot(self, x, y, color):
        self.items.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>')

    def legend(self, y, entries):
        """Draws (name, color) in a row."""
        x = 14
        for name, color in entries:
            self.dot(x, y - 4, color)
            self.text(x + 8, y, name)
            x += 34 + 7 * len(name)

    def svg(self):
        width, height = self.size
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}" {FONT}>',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *self.items, "</svg>", ""])
