// The network policy of a sandbox: shown, and changed as a whole.
#pragma once

#include "base/buf.h"
#include "cli/call.h"
#include "codec/json.h"

// The present field `network` (NULL: none) with the changes of the command line. Reads secret
// values from the environment or stdin: wipe *out after use. INVALID with a hint; NOT_FOUND
// not_listed.
fallible cli_policy_edit(const struct call *call, const struct json *now, struct buf *out);
