// Exchanges with a host that secrets travel to: what goes out has the values, what comes back has
// the placeholders again, in heads and in bodies. Heads are written anew; so is the framing of
// bodies, whose lengths change. Nothing is held as a whole but what is short.
#pragma once

#include "egress/copy.h"

// The head, and the body with it when that is short. What is left of the body is in follow->body,
// for substitute_body() when follow->swapped.
fallible substitute_send(struct follow *follow);
fallible substitute_body(struct follow *follow);
// A head that was read into follow->reply, and the body of it.
fallible substitute_reply(struct follow *follow, struct body *body);
