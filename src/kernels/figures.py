# Pictures and tables for src/kernels/python.py, which loads this file at the first plot. It is also
# a matplotlib backend (_cove_figures): figures are sent by show(), and at the end of a cell.
#
# Defined by the loader: send_result(kind, json, metadata), to_json(value), complain(text).
import sys

TABLE_ROWS = 1000
POINTS = 10000  # points of one series; the rest is dropped, with a message


# ---- matplotlib

def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return bool(module) and isinstance(value, module.Figure)


def send(figure):
    """Sends a figure as a picture and as data, then closes it in pyplot."""
    import binascii
    import io
    page = io.BytesIO()
    pyplot = sys.modules.get("matplotlib.pyplot")
    try:
        figure.savefig(page, format="png", bbox_inches="tight")
        send_result("png", '"%s"' % binascii.b2a_base64(page.getvalue(), newline=False).decode())
        chart = chart_of(figure)
        if chart:
            send_result("chart", to_json(chart))
    except Exception as error:
        complain("a figure could not be drawn: %s: %s" % (type(error).__name__, error))
    finally:
        if pyplot:
            pyplot.close(figure)


def send_all():
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot and hasattr(pyplot, "get_fignums"):
        for number in pyplot.get_fignums():
            send(pyplot.figure(number))


def prepare():
    """Called before pyplot is imported: selects this backend unless another one was chosen."""
    import os
    import matplotlib
    from matplotlib.axes import Axes
    chosen, given = (dict.__getitem__(params, "backend")
                     for params in (matplotlib.rcParams, matplotlib.rcParamsOrig))
    if not os.environ.get("MPLBACKEND") and chosen == given:
        matplotlib.use("module://_cove_figures")
    # A finished figure contains only lines and boxes: record the calls that made them.
    for name in ("bxp", "hist"):
        setattr(Axes, name, noting(getattr(Axes, name), name))


def noting(method, name):
    import functools

    @functools.wraps(method)
    def draw(self, *args, **kw):
        if name == "bxp":
            self._cove_boxes = list(args[0] if args else kw.get("bxpstats", ()))
        else:
            self._cove_hist = True
        return method(self, *args, **kw)
    return draw


def become_backend():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    globals().update(FigureCanvas=FigureCanvasAgg, show=lambda *_, **__: send_all())


def plain(value):
    """A number, a date or a name as a JSON value."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if value - value == 0 else None  # neither infinite nor NaN
    return value if isinstance(value, (int, str, bool, type(None))) else str(value)


def plains(values):
    return [plain(value) for value in list(values)[:POINTS]]


def named(artist, count):
    label = str(artist.get_label())
    return "series %d" % count if label.startswith("_") else label


def categories(axis, places):
    """The tick labels at these positions of an axis, if they are text; else the positions."""
    words = {}
    for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels()):
        words[round(float(place), 9)] = label.get_text()
    found = [words.get(round(float(place), 9)) for place in places]
    if all(found) and not all(word.replace("\u2212", "-").replace(".", "", 1).lstrip("-").isdigit()
                              for word in found):
        return found
    return plains(places)


def boxes_of(axes):
    return [{"label": str(one.get("label") or i + 1), "min": plain(one["whislo"]), "q1": plain(one["q1"]),
             "median": plain(one["med"]), "q3": plain(one["q3"]), "max": plain(one["whishi"]),
             "outliers": plains(one.get("fliers", ()))}
            for i, one in enumerate(axes._cove_boxes)]


def wedges_of(axes, wedges):
    texts = [text.get_text() for text in axes.texts]
    step = 2 if len(texts) >= 2 * len(wedges) else 1  # with autopct every other text is a percentage
    series = []
    for i, wedge in enumerate(wedges):
        label = str(wedge.get_label())
        if label.startswith("_") or not label:
            label = texts[i * step] if i * step < len(texts) else ""
        series.append({"label": label,
                       "value": round(abs(wedge.theta2 - wedge.theta1) / 360, 6)})
    return series


def bars_of(axes, containers):
    series = []
    for container in containers:
        flat = getattr(container, "orientation", None) == "horizontal"
        axis = axes.yaxis if flat else axes.xaxis
        middle = [(bar.get_y() + bar.get_height() / 2) if flat else
                  (bar.get_x() + bar.get_width() / 2) for bar in container]
        size = [bar.get_width() if flat else bar.get_height() for bar in container]
        series.append({"label": named(container, len(series) + 1),
                       "x": categories(axis, middle), "y": plains(size)})
    return series


def points_of(artists, pairs):
    series = []
    for artist in artists:
        x, y = pairs(artist)
        series.append({"label": named(artist, len(series) + 1), "x": plains(x), "y": plains(y)})
    return series


def read_axes(axes):
    """The chart in these axes: a type and its series."""
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.patches import Wedge
    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
    bars = [each for each in axes.containers if isinstance(each, BarContainer)]
    dots = [each for each in axes.collections if isinstance(each, PathCollection)]
    if getattr(axes, "_cove_boxes", None):
        return "box", boxes_of(axes)
    if wedges:
        return "pie", wedges_of(axes, wedges)
    if bars:
        return "histogram" if hasattr(axes, "_cove_hist") else "bar", bars_of(axes, bars)
    if dots:
        return "scatter", points_of(dots, lambda dot: dot.get_offsets().T)
    if axes.lines:
        return "line", points_of(axes.lines, lambda line: line.get_data(orig=False))
    if axes.images:
        return "heatmap", [{"label": named(image, i + 1), "values":
                            [plains(row) for row in image.get_array()[:100].tolist()]}
                           for i, image in enumerate(axes.images) if image.get_array().ndim == 2]
    return "unknown", []


def chart_of_axes(axes):
    kind, series = read_axes(axes)
    layout = {"xaxis": {"title": axes.get_xlabel(), "scale": axes.get_xscale()},
              "yaxis": {"title": axes.get_ylabel(), "scale": axes.get_yscale()}}
    return {"type": kind, "title": axes.get_title(), "library": "matplotlib",
            "data": {"series": series}, "layout": layout}


def chart_of(figure):
    charts = [chart_of_axes(axes) for axes in figure.axes if axes.get_label() != "<colorbar>"]
    if len(charts) == 1:
        if not charts[0]["title"] and figure._suptitle:
            charts[0]["title"] = figure._suptitle.get_text()
        return charts[0]
    if charts:
        title = figure._suptitle.get_text() if figure._suptitle else ""
        return {"type": "unknown", "title": title, "library": "matplotlib",
                "data": {"charts": charts}}
    return None


# ---- others

SHAPES = {"scatter": "scatter", "bar": "bar", "pie": "pie", "box": "box", "histogram": "histogram",
          "heatmap": "heatmap", "line": "line"}


def chart_of_bundle(mime, value):
    """Charts of libraries that can export them as data."""
    if not isinstance(value, dict):
        return None
    if mime.startswith("application/vnd.plotly."):
        traces = value.get("data") or [{}]
        kind = SHAPES.get(traces[0].get("type", "scatter"), "unknown")
        if kind == "scatter" and "lines" in traces[0].get("mode", "lines"):
            kind = "line"
        layout = value.get("layout", {})
        title = layout.get("title", "")
        return {"type": kind, "title": title.get("text", "") if isinstance(title, dict) else title,
                "library": "plotly", "data": value.get("data"), "layout": layout}
    if mime.startswith("application/vnd.vega"):
        mark = value.get("mark", "")
        mark = mark.get("type", "") if isinstance(mark, dict) else mark
        kind = {"point": "scatter", "circle": "scatter", "arc": "pie", "boxplot": "box"}.get(
            mark, SHAPES.get(mark, "unknown"))
        return {"type": kind, "library": "altair", "data": value}
    return None


def table_of(value):
    """A DataFrame as JSON rows, and its metadata as JSON; None: not a DataFrame."""
    pandas = sys.modules.get("pandas")
    if not pandas or not isinstance(value, getattr(pandas, "DataFrame", ())):
        return None
    try:
        text = value.head(TABLE_ROWS).to_json(orient="records", date_format="iso",
                                              default_handler=str)
    except Exception:
        return None  # for example, two columns of one name
    return text, to_json({"rows": len(value), "truncated": len(value) > TABLE_ROWS})
