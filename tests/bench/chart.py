"""Draws charts as SVG."""

import html

COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
FONT = 'font-family="sans-serif" font-size="12"'


class Chart:
    def __init__(self, width, height, title):
        self.size = width, height
        self.items = []
        self.text(8, 18, title, weight="bold")

    def add(self, element, **attributes):
        self.items.append(f"<{element} " + " ".join(
            f'{name.replace("_", "-")}="{value}"'
            for name, value in attributes.items()) + "/>")

    def text(self, x, y, text, anchor="start", weight="normal"):
        self.items.append(
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(text)}</text>')

    def line(self, points, color="#ddd", width=1, dashes="none"):
        self.add("polyline", fill="none", stroke=color, stroke_width=width,
                 stroke_dasharray=dashes,
                 points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points))

    def dot(self, x, y, color):
        self.add("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=4, fill=color)

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
