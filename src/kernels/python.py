# The Python driver of a context. Cells are read from the dialogue one after another, run in one
# namespace, and answered; src/box/context.c is the other end.
#
# Printed text goes to fds 1 and 2 unchanged, from any writer: print(), child processes, C code.
# Everything else (a result, an error, the end of the cell) is an event: JSON on fd 1, in frames
# with a key that only this process knows, each frame one atomic write. So text and events are in
# the order of their creation, and no thread is needed here.
#
# A plain CPython starts, runs a cell and answers without any import beyond those of its own
# startup: json, traceback, asyncio, IPython and the imports of src/kernels/figures.py are loaded by
# the first cell that needs them.
import builtins
import os
import sys

import _signal

DIALOGUE, OUT, ERR = 240, 241, 242
PIPE_BUF = 4096  # size of an atomic write to a pipe
PIECE = 4000  # bytes of an event in one frame; with its header less than PIPE_BUF
PLAIN = (int, float, complex, bool, str, bytes)  # shown as text, without calling user code
EVENT_MAX = 16 << 20
DEPTH_MAX = 28  # depth of a value that is sent as JSON
SOURCES_MAX = 512  # cells whose text is kept for tracebacks
ONLY_AST, ASYNC_CELL, IS_COROUTINE = 0x400, 0x2000, 0x80
ME = "<cove>"

# MIME types and their names on the wire, in the order of sending.
KINDS = {
    "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png",
    "image/jpeg": "jpeg", "text/latex": "latex", "application/json": "json",
    "application/javascript": "javascript", "text/plain": "text",
}
METHODS = {
    "_repr_html_": "text/html", "_repr_markdown_": "text/markdown", "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png", "_repr_jpeg_": "image/jpeg", "_repr_latex_": "text/latex",
    "_repr_json_": "application/json", "_repr_javascript_": "application/javascript",
}

key = b""
held = b""  # a frame that is sent together with the next one
cells = 0
busy = False
shell = None  # IPython's, once needed
loop = None  # asyncio's
sources = {}
main = type(sys)("__main__")
names = main.__dict__


# ---- output

def quote(text):
    """A string as JSON, in ASCII. Plain ASCII is quoted without importing json."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return '"%s"' % text
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        from json.encoder import encode_basestring_ascii
    return encode_basestring_ascii(text)


def write_all(fd, data):
    while data:
        try:
            data = data[os.write(fd, data):]
        except BlockingIOError:  # a child has set O_NONBLOCK on the shared pipe
            os.set_blocking(fd, True)


def emit(text):
    """Sends one event, JSON in ASCII, after all text printed before it."""
    global held
    flush()
    data = text.encode("ascii")
    if len(data) > EVENT_MAX:
        complain("a result of %d bytes was left out: %d are the most" % (len(data), EVENT_MAX))
        return
    for at in range(0, len(data) or 1, PIECE):
        piece = data[at:at + PIECE]
        more = b"+" if at + PIECE < len(data) else b"."
        frame = b"\x1e%s%s%04x" % (key, more, len(piece)) + piece
        if held and len(held) + len(frame) > PIPE_BUF:
            write_all(1, held)
            held = b""
        write_all(1, held + frame)
        held = b""


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    if "ctypes" in sys.modules:  # C code may have printed through stdio
        try:
            sys.modules["ctypes"].CDLL(None).fflush(None)
        except Exception:
            pass


def complain(text):
    write_all(2, (text + "\n").encode("utf-8", "backslashreplace"))


def is_deep(value, left=DEPTH_MAX):
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return False
    return left == 0 or any(is_deep(each, left - 1) for each in value)


def to_json(value):
    import json
    text = json.dumps(value, allow_nan=False)
    if is_deep(value):
        raise ValueError("nested too deeply")
    return text


def send_result(kind, text, metadata="{}"):
    emit('{"type":"result","%s":%s,"metadata":%s}' % (kind, text, metadata))


def send_error(name, text, trace):
    emit('{"type":"error","ename":%s,"evalue":%s,"traceback":[%s]}'
         % (quote(name), quote(text), ",".join(map(quote, trace))))


# ---- representations of a value

def as_base64(value):
    if isinstance(value, str):
        return value.replace("\n", "")
    import binascii
    return binascii.b2a_base64(bytes(value), newline=False).decode()


def encode(mime, value):
    """A value of that type as JSON; None: not possible."""
    try:
        if mime.startswith("image/") and mime != "image/svg+xml":
            return quote(as_base64(value))
        if mime == "application/json":
            return to_json(value)
        return quote(value if isinstance(value, str) else str(value))
    except Exception:
        return None


def ask(value, method):
    """The result of a method of the value; None: no such method, or no result."""
    if isinstance(value, type):
        return None
    try:
        found = getattr(value, method, None)
        return found() if callable(found) else None
    except Exception as error:
        complain("%s of %s: %s" % (method, type(value).__name__, said(error)))
        return None


def bundle_of(value):
    if shell:
        return shell.display_formatter.format(value)[0]
    bundle = {}
    for method, mime in METHODS.items():
        told = ask(value, method)
        if isinstance(told, tuple):  # with metadata
            told = told[0]
        if told is not None:
            bundle[mime] = told
    told = ask(value, "_repr_mimebundle_")
    if isinstance(told, tuple):
        told = told[0]
    if isinstance(told, dict):
        bundle.update(told)
    bundle.setdefault("text/plain", repr(value))
    return bundle


def send_bundle(bundle):
    for mime, kind in KINDS.items():
        if bundle.get(mime) is not None:
            text = encode(mime, bundle[mime])
            if text is not None:
                send_result(kind, text)
    for mime, value in bundle.items():
        if mime.startswith("application/vnd."):
            chart = figures().chart_of_bundle(mime, value)
            if chart:
                send_result("chart", to_json(chart))


def show(value):
    """Each representation of a value, as an event of its own."""
    if type(value) in (dict, list):
        try:
            send_result("json", to_json(value))
            return
        except (TypeError, ValueError, RecursionError):
            pass  # not JSON: as text
    if figures().is_figure(value):
        figures().send(value)
        return
    bundle = bundle_of(value)
    if not bundle and shell:
        return  # _ipython_display_() has displayed it
    send_bundle(bundle)
    table = figures().table_of(value)
    if table:
        send_result("data", *table)


def show_plain(value):
    """Sends the last value of a cell, together with the end event that follows: one write for both."""
    global held
    text = '{"type":"result","text":%s,"metadata":{}}' % quote(repr(value))
    if len(text) > PIECE // 2:
        emit(text)
        return
    flush()
    held = b"\x1e%s.%04x" % (key, len(text)) + text.encode("ascii")


def display(*values, raw=False, **_):
    for value in values:
        if raw and isinstance(value, dict):
            send_bundle(value)
        else:
            show(value)


class NoFigures:
    """Stands in for src/kernels/figures.py until the first plot."""
    is_figure = table_of = chart_of_bundle = staticmethod(lambda *_: None)
    send_all = staticmethod(lambda: None)


drawn = None


def figures():
    global drawn
    if drawn:
        return drawn
    if not ("matplotlib" in sys.modules or "pandas" in sys.modules or "plotly" in sys.modules
            or "altair" in sys.modules):
        return NoFigures
    drawn = type(sys)("_cove_figures")
    drawn.__dict__.update(send_result=send_result, to_json=to_json, complain=complain)
    exec(compile(FIGURES, ME, "exec"), drawn.__dict__)
    return drawn


class Finder:
    """An import hook that notices matplotlib, to set our backend. Finds no modules itself."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "matplotlib.pyplot":
            figures().prepare()
        if name == "_cove_figures" and drawn:
            import importlib.machinery
            return importlib.machinery.ModuleSpec(name, Finder)
        return None

    @staticmethod
    def create_module(spec):
        return drawn

    @staticmethod
    def exec_module(module):
        module.become_backend()


# ---- errors

def said(error):
    try:
        return str(error)
    except Exception:
        return "(it cannot be told: its __str__ failed)"


def lend_sources():
    """Makes the text of cells available to tracebacks and inspect."""
    lines = sys.modules.get("linecache")
    if lines:
        for name, text in sources.items():
            if name not in lines.cache:
                lines.cache[name] = (len(text), None, text.splitlines(True), name)


def own_part(trace):
    while trace and trace.tb_frame.f_code.co_filename == ME:
        trace = trace.tb_next
    return trace


def report(error):
    import linecache  # noqa: F401, for lend_sources()
    import traceback
    lend_sources()
    try:
        lines = traceback.format_exception(type(error), error, own_part(error.__traceback__))
    except Exception:
        lines = ["(its traceback cannot be told)\n"]
    send_error(type(error).__name__, said(error), [line.rstrip("\n") for line in lines])


# ---- IPython, if installed

def looks_magic(code):
    for line in code.splitlines():
        line = line.strip()
        if line[:1] in ("%", "!", "?") or line[-1:] == "?" or "= !" in line or "= %" in line:
            return True
    return False


def make_shell():
    global shell
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, **_):
            send_bundle(data)

        def clear_output(self, wait=False):
            pass

    def system(command):
        """!command, writing where print() does: IPython's own uses a terminal, which changes line ends."""
        import subprocess
        command = made.var_expand(command, depth=1)
        flush()
        names["_exit_code"] = subprocess.call(command, shell=True, executable=os.environ.get("SHELL"))

    InteractiveShell.display_pub_class = Publisher
    made = InteractiveShell.instance(user_module=main, user_ns=names)
    made.history_manager.enabled = False
    made.system = system
    made.enable_matplotlib = lambda gui=None: ("inline", "inline")
    builtins.get_ipython = made.get_ipython
    shell = made


def want_shell():
    """True: IPython is installed and initialized. One that cannot be loaded counts as missing."""
    if not shell:
        try:
            make_shell()
        except Exception:
            return False
    return True


def parse(code, name):
    flags = ONLY_AST | ASYNC_CELL
    if "IPython" in sys.modules or "IPython" in code or "get_ipython" in code:
        want_shell()
    if shell:
        code = shell.transform_cell(code)
        remember(name, code)
    try:
        return compile(code, name, "exec", flags, True)
    except SyntaxError as error:
        if shell or not looks_magic(code):
            raise
        if not want_shell():
            error.msg += " (% and ! lines need IPython, which this sandbox does not have)"
            raise
        return parse(code, name)


# ---- running a cell

def remember(name, code):
    sources[name] = code
    if len(sources) > SOURCES_MAX:
        old = next(iter(sources))
        del sources[old]
        lines = sys.modules.get("linecache")
        if lines:
            lines.cache.pop(old, None)


def finish_async(coroutine):
    global loop
    import asyncio
    if not loop or loop.is_closed():
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        try:
            loop.run_until_complete(task)
        except BaseException:
            pass
        raise


async def in_turn(parts):
    for part in parts:
        value = eval(part, names)
        if part.co_flags & IS_COROUTINE:
            value = await value
    return value


def evaluate(parts):
    """Runs the code objects and returns the last value. If one of them awaits, all run in the event loop."""
    if any(part.co_flags & IS_COROUTINE for part in parts):
        return finish_async(in_turn(parts))
    for part in parts:
        value = eval(part, names)
    return value


def parts_of(code, name):
    """Compiles the cell: statements, then the last expression; and whether there is one."""
    if not shell and "IPython" not in sys.modules:
        try:
            return [compile(code, name, "eval", ASYNC_CELL, True)], not code.rstrip().endswith(";")
        except (SyntaxError, ValueError):
            pass  # more than one expression; a syntax error is reported below
    import _ast  # takes more than a millisecond, which a single expression need not wait for
    tree = parse(code, name)
    parts, last = [], None
    if tree.body and isinstance(tree.body[-1], _ast.Expr) and not code.rstrip().endswith(";"):
        last = tree.body.pop()
    if tree.body:
        parts.append(compile(tree, name, "exec", ASYNC_CELL, True))
    if last:
        parts.append(compile(_ast.Expression(last.value), name, "eval", ASYNC_CELL, True))
    return parts, last is not None


def execute(code, name):
    parts, shown = parts_of(code, name)
    value = evaluate(parts) if parts else None
    if not shown or value is None:
        return
    names["_"] = value
    if type(value) in PLAIN and not shell:
        show_plain(value)
    else:
        show(value)


def open_stream(fd, name):
    stream = open(fd, "w" if fd else "r", 1, "utf-8", "backslashreplace", closefd=False)
    setattr(sys, name, stream)
    setattr(sys, "__%s__" % name, stream)


def prepare_streams():
    """Restores signal handlers and streams at the beginning of a cell, whatever the last one did."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name, None)
        if fd:
            os.set_blocking(fd, True)
        if stream is None or getattr(stream, "closed", False):
            open_stream(fd, name)
    _signal.signal(_signal.SIGINT, on_interrupt)


def on_interrupt(signum, frame):
    if busy:
        raise KeyboardInterrupt


def run(code):
    """Runs a cell; its last event reports how it ended. The status is 0 or 1."""
    global cells, busy
    cells += 1
    name = "<cell %d>" % cells
    failure = None
    prepare_streams()
    remember(name, code)
    lend_sources()
    try:
        try:
            busy = True
            execute(code, name)
        finally:
            busy = False
    except BaseException as error:
        failure = error
    try:
        figures().send_all()
        if failure is None:
            emit('{"type":"execution_complete","execution_count":%d}' % cells)
            return 0
        report(failure)
    except BaseException as error:
        send_error(type(error).__name__, said(error), [])
    finally:
        # A name bound to the exception would keep all its frames alive.
        failure = None
    return 1


def refuse_input(prompt="", /):
    raise EOFError("input() is not available: nobody is at this keyboard; "
                   "put the value into the code")


# ---- the dialogue

heard = b""


def hear_more():
    global heard
    part = os.read(DIALOGUE, 1 << 16)
    if not part:
        os._exit(0)
    heard += part


def hear(count):
    global heard
    while len(heard) < count:
        hear_more()
    taken, heard = heard[:count], heard[count:]
    return taken


def hear_line():
    while b"\n" not in heard:
        hear_more()
    return hear(heard.index(b"\n") + 1).split()


def leave_dialogue():
    """In a forked child: only the parent gets cells."""
    try:
        os.close(DIALOGUE)
    except OSError:
        pass


def take_seats():
    none = os.open("/dev/null", os.O_RDONLY)
    os.dup2(none, 0)
    os.close(none)
    for fd, seat in ((OUT, 1), (ERR, 2)):
        os.dup2(fd, seat)
        os.close(fd)
    os.set_inheritable(DIALOGUE, False)
    os.register_at_fork(after_in_child=leave_dialogue)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        open_stream(fd, name)


def take(text):
    """Turns a prewarmed interpreter into that of a context. 1: it does not match the request."""
    global key
    mine, cwd, *pairs = text.split(b"\0")[:-1]
    try:
        os.chdir(cwd)
    except OSError:
        return 1
    if pairs:
        os.environb.clear()
        os.environb.update(pair.split(b"=", 1) for pair in pairs)
    site = sys.modules.get("site")
    if site and site.ENABLE_USER_SITE and site.USER_SITE not in sys.path and os.path.isdir(site.USER_SITE):
        site.addsitedir(site.USER_SITE)  # it was created after our start
    key = mine
    return 0


def serve():
    global key
    me = os.getpid()
    take_seats()
    names["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.meta_path.insert(0, Finder)
    builtins.input = refuse_input
    builtins.display = display
    prepare_streams()
    while True:
        verb, mark, length = hear_line()
        text = hear(int(length))
        status = 0
        if verb == b"hello":
            key = text
        elif verb == b"take":
            status = take(text)
        elif verb == b"run":
            status = run(text.decode("utf-8", "replace"))
        if os.getpid() != me:
            os._exit(status)  # a child forked by the cell that returned here
        try:
            cwd = os.getcwd().encode("utf-8", "surrogateescape")
        except OSError:
            cwd = b""
        write_all(DIALOGUE, b"%d %s  %s\0" % (status, mark, cwd[:4096]))
        if verb == b"hello":
            compile("0", ME, "eval", ASYNC_CELL, True)  # the first compile is slow: do it while idle


serve()
