"""A certificate for servers of tests, and the authority that signed it."""
import os
import subprocess

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(home, *words):
    subprocess.run(["openssl", *words], cwd=home, check=True, capture_output=True, timeout=60)


def certify(home, authority, names):
    """Makes ca.pem, server.pem and server.key in `home`; returns their paths."""
    openssl(home, "req", "-x509", *CURVE, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=" + authority,
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    openssl(home, "req", *CURVE, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=" + names[0])
    with open(os.path.join(home, "ext"), "w") as file:
        file.write("subjectAltName=%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n" % ",".join("DNS:" + name for name in names))
    openssl(home, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-out", "server.pem", "-extfile", "ext")
    return tuple(os.path.join(home, name) for name in ("ca.pem", "server.pem", "server.key"))
