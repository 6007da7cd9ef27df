// Opens and closes egress, and adds, changes and removes boxes. A removed box stays in memory until
// its last connection has ended, soon after; the caller does not wait for that.
//
// syscalls: prlimit64
#include "egress/egress.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/mem.h"
#include "egress/authority.h"
#include "egress/keystore.h"
#include "egress/private.h"
#include "egress/tls_stream.h"
#include "os/fd.h"
#include "store/egress.h"

// Two sockets per connection, and pipes for slow readers; half of all descriptors stay for the
// rest.
static uint32_t most_connections(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 12 > 100000)
		return 100000;
	return (uint32_t)(limit.rlim_cur / 12);
}

fallible egress_open(struct loop *loop, struct store *store, const struct egress_config *config,
		     struct egress **out)
{
	struct egress *egress = mem_new_of(struct egress);
	struct resolve_rules rules = {.exceptions = config->exceptions, .hosts = config->hosts};
	struct err *err;

	*egress = (struct egress){.loop = loop, .store = store};
	memcpy(egress->seed, config->seed, sizeof(egress->seed));
	link_init(&egress->boxes);
	condition_init(&egress->empty);
	egress->count_max = most_connections();
	egress->per_second_max = config->per_second_max ? config->per_second_max
							: BUDGET_RATE_DEFAULT;
	egress->trust = trust_new(config->ca);
	err = verdicts_open(loop, store, config->live, &egress->verdicts);
	if (!err)
		err = resolve_open(loop, &rules, &egress->resolve);
	if (err) {
		egress_close(egress);
		return err;
	}
	*out = egress;
	return OK;
}

void egress_close(struct egress *egress)
{
	if (!egress)
		return;
	// Without a running loop there is no task to wait in.
	while (egress->count && task_current())
		condition_await(&egress->empty);
	resolve_close(egress->resolve);
	verdicts_close(egress->verdicts);
	trust_free(egress->trust);
	egress_splice_trim();
	secret_wipe(egress->seed, sizeof(egress->seed));
	free(egress);
}

static void close_sockets(struct egress_box *box)
{
	acceptor_close(box);
	dns_stub_close(box);
}

// The usage recorded by earlier daemons.
static fallible egress_recover(struct egress_box *box, struct budget_used *out)
{
	struct store_egress_sums sums;

	TRY(store_egress_sums(box->egress->store, box->id, &sums));
	*out = (struct budget_used){.connections = sums.connections,
				    .requests = sums.requests,
				    .bytes_out = sums.bytes_out,
				    .bytes_in = sums.bytes_in};
	box->denied = sums.denied;
	box->opaque = sums.opaque;
	return OK;
}

static struct budget_limits limits_of(const struct egress_box *box)
{
	return budget_within(&box->policy.budgets, box->egress->per_second_max);
}

static fallible egress_prepare(struct egress_box *box, const struct egress_box_spec *spec)
{
	struct budget_limits limits = limits_of(box);
	struct budget_used used = {0};

	if (!spec->fresh && box->egress->store)
		TRY(egress_recover(box, &used), "recall what %s has used", box->id);
	budget_init(&box->budget, &limits, &used, loop_now(box->egress->loop));
	return OK;
}

fallible egress_box_new(struct egress *egress, const struct egress_box_spec *spec,
			struct egress_box **out)
{
	struct egress_box *box = mem_new_of(struct egress_box);
	auto_fd listener = spec->listener, udp = spec->udp;
	struct err *err;

	*box = (struct egress_box){.egress = egress,
				   .id = mem_str(spec->id),
				   .tenant = mem_str(spec->tenant ? spec->tenant : ""),
				   .listener = {.fd = -1},
				   .udp = {.fd = -1},
				   .holders = 1};
	policy_copy(spec->policy, &box->policy);
	link_init(&box->conns);
	link_init(&box->queue);
	link_init(&box->passing);
	link_add(&egress->boxes, &box->link);
	err = egress_prepare(box, spec);
	if (!err)
		err = egress_box_sockets(box, take_fd(&listener), take_fd(&udp));
	if (err) {
		egress_box_free(box);
		return err;
	}
	*out = box;
	return OK;
}

static void stop_all(struct egress_box *box)
{
	dns_stub_stop(box);
	list_each (at, &box->conns)
		conn_stop(link_of(at, struct conn, link));
}

fallible egress_box_sockets(struct egress_box *box, int listener, int udp)
{
	struct err *err;

	close_sockets(box);
	if (listener < 0)
		stop_all(box);
	err = acceptor_open(box, listener);
	if (err) {
		if (udp >= 0)
			close(udp);
		return err;
	}
	return dns_stub_open(box, udp);
}

void egress_box_policy(struct egress_box *box, const struct policy *policy)
{
	struct budget_limits limits;
	struct policy fresh;

	policy_copy(policy, &fresh);
	policy_done(&box->policy);
	secrets_free(take_ptr(box->secrets));
	box->policy = fresh;
	limits = limits_of(box);
	budget_change(&box->budget, &limits, loop_now(box->egress->loop));
	list_each (at, &box->conns) {
		struct conn *conn = link_of(at, struct conn, link);

		int was = (int)conn->judged;
		const char *reason;

		// Would the new policy allow the connection in the same way?
		if (was && (!judge_name(conn, &reason) || (int)conn->judged != was))
			conn_stop(conn);
	}
}

void egress_box_free(struct egress_box *box)
{
	if (!box)
		return;
	close_sockets(box);
	box->closed = true;
	link_drop(&box->link);
	judge_close_rest(box);
	stop_all(box);
	egress_box_drop(box);
}

struct egress_counts egress_box_counts(const struct egress_box *box)
{
	const struct budget_used *used = &box->budget.used;

	return (struct egress_counts){.connections = used->connections,
				      .requests = used->requests,
				      .bytes_out = used->bytes_out,
				      .bytes_in = used->bytes_in,
				      .denied = box->denied,
				      .open = box->budget.open,
				      .opaque = box->opaque};
}

struct subscriber *egress_listen(struct egress *egress, const char *box_id)
{
	return verdicts_subscribe(egress->verdicts, box_id);
}

void egress_ring(struct egress *egress, const char *box_id)
{
	verdicts_ring(egress->verdicts, box_id);
}

void egress_hurry(struct egress *egress)
{
	verdicts_hurry(egress->verdicts);
}

fallible egress_authority(const struct egress *egress, const char *box_id, struct buf *out_pem,
			  char hash[EGRESS_HASH])
{
	struct authority *authority = authority_new(egress->seed, box_id);
	struct err *err;

	if (!authority)
		return err_sys(0, "make the authority of %s", box_id);
	err = authority_write(authority, out_pem);
	if (!err && hash)
		snprintf(hash, EGRESS_HASH, "%08lx", authority_hash(authority) & 0xffffffff);
	authority_free(authority);
	return err;
}

fallible egress_keystore(const struct egress *egress, const char *box_id, struct str old,
			 struct buf *out)
{
	struct authority *authority = authority_new(egress->seed, box_id);
	auto_free char *alias = mem_fmt("cove-%s", box_id);
	auto_buf der = BUF_INIT(16 * 1024);
	struct err *err;

	if (!authority)
		return err_sys(0, "make the authority of %s", box_id);
	err = authority_write_der(authority, &der);
	if (!err)
		err = keystore_add(old, alias, buf_view(&der), out);
	authority_free(authority);
	return err;
}

void egress_on_secret(struct egress *egress, egress_secret_fn *fn, void *arg)
{
	egress->on_secret = fn;
	egress->on_secret_arg = arg;
}
