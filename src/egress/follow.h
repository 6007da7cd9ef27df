// Follows HTTP/1 request by request: each is judged by its Host field and counted; a denied one is
// answered here.
#pragma once

#include "egress/half.h"
#include "egress/private.h"

// `half` is the box's side. *out_upgraded: both sides agreed to an upgrade, and what was read of it
// has been passed on: the caller may splice conn->in and conn->out (under *out_up_tls_stream, if
// set, which is then the caller's). Otherwise the connection is finished.
void follow_serve(struct conn *conn, struct half *half, bool *out_upgraded,
		  struct tls_stream **out_up_tls_stream);
