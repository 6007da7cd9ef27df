// docs/CONFIGURATION.md, written from the tables that cove itself reads.
#pragma once

#include "base/buf.h"

void document_write(struct buf *out);
