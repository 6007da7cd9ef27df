// What a tape has now, sent as a recording (codec/cast.h).
#pragma once

#include "box/tape.h"
#include "codec/cast.h"
#include "http/http.h"

// The tape is held by the caller.
fallible toolbox_cast_send(struct http *x, struct tape *tape, const struct cast_head *head,
			   bool is_terminal);
