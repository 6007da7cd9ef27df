// HTTP/1 followed, request by request: each is judged by its own Host, counted, and answered here
// when it may not pass.
#pragma once

#include "egress/half.h"
#include "egress/private.h"

// `leg` is the box's side. *out_upgraded: both sides agreed to speak something else, and what was
// read of that has been passed on: conn->in and conn->out (under up_sealed, if there is one, which
// then is the caller's) are free to be carried. Else it is over; the last word was said.
void follow_serve(struct conn *conn, struct half *half, bool *out_upgraded,
		  struct tls_stream **out_up_tls_stream);
