// Headers that replies with raw files share.
#pragma once

#include "toolbox/path_arg.h"

const char *raw_etag(struct http *x, const struct fileop_stat *stat);
// In the format of HTTP dates; in the exchange's arena.
const char *raw_date(struct http *x, int64_t wall_us);
