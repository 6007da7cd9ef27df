import os
def hear(n):
    data = b""
    while len(data) < n:
        part = os.read(240, n - len(data))
        if not part:
            os._exit(0)
        data += part
    return data
head = b""
while head[-1:] != b"\n":
    head += hear(1)
driver, figures, *code = [hear(int(n)) for n in head.split()]
try:
    import _frozen_importlib_external, marshal
    code = marshal.loads(code[0][4:]) if code[0][:4] == _frozen_importlib_external.MAGIC_NUMBER else None
except (ImportError, IndexError):
    code = None
exec(code or compile(driver, "<cove>", "exec"), {"__name__": "cove", "FIGURES": figures})
