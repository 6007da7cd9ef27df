// Encodes a picture as sixels: bands of six lines, one colour after another. No I/O.
#pragma once

#include <stdbool.h>

#include "base/buf.h"

// `png` is a whole file. False: it cannot be read (cli/png.h).
bool sixel_put(struct buf *out, struct str png);
