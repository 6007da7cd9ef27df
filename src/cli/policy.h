// What a sandbox may reach: shown, and changed as a whole.
#pragma once

#include "base/buf.h"
#include "cli/call.h"
#include "codec/json.h"

fallible cli_policy(struct call *call);

// The field `network` as it is now (NULL: nothing), with the changes of the command line. Reads
// values of secrets from the environment or standard input: wipe *out after its use. INVALID with a
// hint; NOT_FOUND not_listed.
fallible cli_policy_edit(const struct call *call, const struct json *now, struct buf *out);
