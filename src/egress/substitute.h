// Exchanges with a host that gets secrets: requests carry the values, replies the placeholders, in
// heads and bodies. Heads are rewritten, and so is the framing of bodies, whose lengths change.
// Only short bodies are buffered as a whole.
#pragma once

#include "egress/copy.h"

// Sends the head, with a short body. The rest of the body is in follow->body, for substitute_body()
// if follow->substituted.
fallible substitute_send(struct follow *follow);
fallible substitute_body(struct follow *follow);
// Sends the head in follow->reply, and its body.
fallible substitute_reply(struct follow *follow, struct body *body);
