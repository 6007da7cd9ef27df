// Chooses how a connection is served, by its first bytes (egress/sniff). No packet leaves the host
// before the connection is judged.
//
// TLS          the SNI of the ClientHello; without one, the name of the synthetic address
// HTTP         the Host of each request (egress/plain)
// other        the name of the synthetic address, else the address itself; also HTTP/2 without
//              TLS, whose requests are not seen
#include "base/auto.h"
#include "egress/private.h"
#include "protocol/hello.h"

// The connection was allowed, but the server cannot be reached. A TLS client gets an alert,
// different from that of a denial; any other client a reset.
static void dispatch_unreached(struct conn *conn, const struct err *err)
{
	bool denied = !strcmp(err_reason(err), "not_global");
	struct str alert = denied ? HELLO_DENIED : HELLO_FAILED;

	if (err_kind(err) == ERR_CANCELLED || conn->protocol != SNIFF_TLS) {
		conn->in.aborted = true;
		return;
	}
	judge_say_last(conn, alert);
}

static void dispatch_opaque(struct conn *conn, struct sniff *sniff)
{
	enum budget_verdict spent = budget_request(&conn->box->budget);
	const char *reason;
	auto_err err = NULL;

	if (spent != BUDGET_OK) {
		judge_deny(conn, budget_reason(spent));
		return;
	}
	conn->opaque = true;
	err = judge_connect(conn);
	conn->was_out = !err;
	if (err) {
		budget_unopen(&conn->box->budget, true);
		conn->counted = false;
		dispatch_unreached(conn, err);
		return;
	}
	// After a wait the policy may have changed.
	if (!judge_name(conn, &reason) || conn->inspected)
		judge_close_verdict(conn, "stopped");
	else if (sniff->undecided)
		server_first_serve(conn, sniff);
	else
		err_free(conn_copy(conn));
}

static void dispatch_judge(struct conn *conn, struct sniff *sniff)
{
	auto_err err = NULL;
	const char *reason;

	sniff_take_target(conn);
	err = sniff_find_out(conn, sniff, judge_must_show(conn) != NULL);
	if (err) {
		if (err_kind(err) == ERR_INVALID || err_kind(err) == ERR_TOO_LARGE)
			judge_deny(conn, err_reason(err));
		else if (err_kind(err) == ERR_TIMEOUT)
			judge_note(conn, "silent");
		return;
	}
	if (conn->protocol == SNIFF_HTTP) {
		sniff_forget(sniff);
		plain_serve(conn);
		return;
	}
	if (!judge_name(conn, &reason))
		judge_deny(conn, reason);
	else if (conn->refused != BUDGET_OK)
		judge_deny(conn, budget_reason(conn->refused));
	else if (!conn->inspected)
		dispatch_opaque(conn, sniff);
	else {
		sniff_forget(sniff);
		inspect_serve(conn);
	}
}

void dispatch_serve(struct conn *conn)
{
	if (conn->port == 53) {
		if (conn->counted)
			budget_spare(&conn->box->budget);
		dns_stub_serve(conn);
	} else {
		struct sniff *sniff = sniff_new();

		dispatch_judge(conn, sniff);
		sniff_free(sniff);
	}
	if (!conn->pour)
		conn_end(conn);
}
