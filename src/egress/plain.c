// HTTP without TLS: followed for its names; no secret ever travels here.
#include "egress/follow.h"

void plain_serve(struct conn *conn)
{
	struct leg leg = {.stream = &conn->in};
	struct sealed *none = NULL;
	bool upgraded;

	follow_serve(conn, &leg, &upgraded, &none);
	if (upgraded)
		err_free(conn_pour(conn));
}
