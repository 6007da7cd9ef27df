// HTTP without TLS: requests are followed for their Host fields. Secrets are never substituted
// here, since anybody on the path could read them.
#include "egress/follow.h"

void plain_serve(struct conn *conn)
{
	struct half half = {.stream = &conn->in};
	struct tls_stream *none = NULL;
	bool upgraded;

	follow_serve(conn, &half, &upgraded, &none);
	if (upgraded)
		err_free(conn_copy(conn));
}
