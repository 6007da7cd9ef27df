// docs/CONFIGURATION.md, generated from the program's tables.
#pragma once

#include "base/buf.h"

void document_write(struct buf *out);
