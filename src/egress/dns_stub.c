// The only DNS server that a box can reach, at whatever address it asks. A name that the policy
// knows gets an address of 198.18.0.0/15 that stands for the name in this box, and one of
// fd63:6f76:65::/96 for AAAA. No address is looked up here, and no label of an unknown name leaves
// the host, so queries cannot exfiltrate data. Other record types that programs need (MX, TXT, SRV,
// PTR) are asked of the host's resolver, for names that the policy knows.
//
// syscalls: recvmsg sendmsg setsockopt
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/mem.h"
#include "egress/private.h"
#include "os/fd.h"
#include "types/dns.h"

#define TURN_MAX 64	 // queries in one turn of the loop
#define PER_SECOND 1000	 // further ones wait in the socket
#define TCP_QUESTIONS 64 // queries of one connection
#define QUEUE_BYTES (1 << 20)
#define QUESTION_MAX 512 // bytes of a query that is forwarded
#define PASSING_MAX 128	 // forwarded queries of a box at once
#define ANSWER_MS 10000	 // for the host's resolver
#define MESSAGE_MAX 16384

static bool is_passed(const struct dns_query *query)
{
	return query->class == 1 && (query->type == DNS_MX || query->type == DNS_TXT ||
				     query->type == DNS_SRV || query->type == DNS_PTR);
}

// The name of a synthetic address, for PTR queries. NULL: not a synthetic address.
static const char *reverse_of(struct egress_box *box, const struct dns_query *query)
{
	struct address asked;

	return query->type == DNS_PTR && box->names && dns_reverse(query, &asked)
		       ? names_find(box->names, &asked)
		       : NULL;
}

// 0: no reply; *out_pass: forward the query to the host's resolver.
static size_t dns_stub_answer(struct egress_box *box, struct str message,
			      uint8_t room[DNS_ANSWER_MAX], bool *out_pass)
{
	struct dns_query query;
	struct address given;
	const char *known;

	*out_pass = false;
	if (box->policy.mode == POLICY_OFF || !dns_read(message, &query))
		return 0;
	if (query.fault != DNS_OK)
		return dns_answer(&query, query.fault, NULL, room);
	known = reverse_of(box, &query);
	if (known)
		return dns_answer_name(&query, known, room);
	if (query.kind != HOSTNAME_NAME || (query.is_service && !is_passed(&query)) ||
	    !policy_knows(&box->policy, query.kind, query.name)) {
		// Resolvers ask for A and AAAA at once: record only one of them.
		if (query.kind == HOSTNAME_NAME && query.type == DNS_A)
			judge_note_name(box, query.name);
		return dns_answer(&query, DNS_NO_NAME, NULL, room);
	}
	*out_pass = is_passed(&query);
	if (*out_pass)
		return 0;
	if ((query.type != DNS_A && query.type != DNS_AAAA) || query.class != 1)
		return dns_answer(&query, DNS_OK, NULL, room);
	if (!box->names)
		box->names = names_new(NAMES_MAX);
	names_give(box->names, query.name, &given);
	if (query.type == DNS_AAAA)
		names_six(&given, &given);
	return dns_answer(&query, DNS_OK, &given, room);
}

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo))];
};

// Reply from the address that was asked; all other control data is dropped.
static void keep_source(struct msghdr *msg)
{
	for (struct cmsghdr *at = CMSG_FIRSTHDR(msg); at; at = CMSG_NXTHDR(msg, at)) {
		if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(at), sizeof(info));
			info.ipi_spec_dst = info.ipi_addr;
			info.ipi_ifindex = 0;
			memcpy(CMSG_DATA(at), &info, sizeof(info));
		} else if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(at), sizeof(info));
			info.ipi6_ifindex = 0;
			memcpy(CMSG_DATA(at), &info, sizeof(info));
		}
	}
}

// ---------------------------------------------------------------------------- forwarded queries

struct passing {
	struct link link;
	struct egress_box *box;
	struct task *task;
	char question[QUESTION_MAX];
	size_t question_len;
	struct sockaddr_in6 from;
	socklen_t from_len;
	size_t control_len;
	union control control;
};

// The reply of the host's resolver. DNS_FAILED if there is none.
static fallible ask_host(struct egress_box *box, struct str message, size_t max, struct buf *out)
{
	struct egress *egress = box->egress;
	struct dns_query query;
	struct err *err;
	char *room;

	if (!dns_read(message, &query))
		return err_new(BAD_PEER, "bad_dns", "not a DNS query");
	err = resolve_records(egress->resolve, box->id, query.type, query.owner,
			      loop_now(egress->loop) + ANSWER_MS, out);
	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	err_free(err);
	if (!max)
		max = query.has_edns ? DNS_EDNS_SIZE : DNS_ANSWER_MAX;
	out->len = dns_adopt(&query, (uint8_t *)out->at, out->len, max);
	if (out->len)
		return OK;
	room = buf_space(out, DNS_ANSWER_MAX);
	if (room)
		buf_grew(out, dns_answer(&query, DNS_FAILED, NULL, (uint8_t *)room));
	return OK;
}

static void passing_run(void *arg)
{
	struct passing *passing = arg;
	struct egress_box *box = passing->box;
	struct egress *egress = box->egress;
	struct str message = {passing->question, passing->question_len};
	auto_buf reply = BUF_INIT(MESSAGE_MAX);
	auto_err err = ask_host(box, message, 0, &reply);
	struct iovec part = {reply.at, reply.len};
	struct msghdr msg = {.msg_name = &passing->from,
			     .msg_namelen = passing->from_len,
			     .msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = &passing->control,
			     .msg_controllen = passing->control_len};

	if (!err && reply.len && box->udp.fd >= 0)
		(void)!sendmsg(box->udp.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	link_drop(&passing->link);
	free(passing);
	box->passing_count--;
	egress_box_drop(box);
	if (!--egress->count)
		condition_signal(&egress->empty);
}

static void dns_stub_pass_on(struct egress_box *box, struct str message, const struct msghdr *msg)
{
	struct passing *passing;

	if (box->passing_count == PASSING_MAX || message.len > QUESTION_MAX)
		return; // like a lost datagram
	passing = mem_new_of(struct passing);
	passing->box = box;
	memcpy(passing->question, message.at, message.len);
	passing->question_len = message.len;
	memcpy(&passing->from, msg->msg_name, sizeof(passing->from));
	passing->from_len = msg->msg_namelen;
	memcpy(&passing->control, msg->msg_control, sizeof(passing->control));
	passing->control_len = msg->msg_controllen;
	link_add(&box->passing, &passing->link);
	box->passing_count++;
	box->holders++;
	box->egress->count++;
	passing->task = task_start(box->egress->loop, "egress.dns", passing_run, passing);
}

void dns_stub_stop(struct egress_box *box)
{
	list_each (at, &box->passing)
		task_cancel(link_of(at, struct passing, link)->task);
}

static int64_t next_second(const struct egress_box *box)
{
	return box->questions.since_ms + 1000;
}

static void on_udp_due(struct timer *timer)
{
	struct egress_box *box = link_of(timer, struct egress_box, udp_due);

	err_free(loop_watch(box->egress->loop, &box->udp, EPOLLIN));
}

static void on_udp(struct watch *watch, uint32_t events)
{
	struct egress_box *box = link_of(watch, struct egress_box, udp);

	(void)events;
	for (int i = 0; i < TURN_MAX; i++) {
		int64_t now = loop_now(box->egress->loop);
		bool pass;
		char question[1500];
		uint8_t reply[DNS_ANSWER_MAX];
		struct sockaddr_in6 from;
		union control control;
		struct iovec part = {question, sizeof(question)};
		struct msghdr msg = {.msg_name = &from,
				     .msg_namelen = sizeof(from),
				     .msg_iov = &part,
				     .msg_iovlen = 1,
				     .msg_control = &control,
				     .msg_controllen = sizeof(control)};
		ssize_t n;
		size_t len;

		if (!burst_has_room(&box->questions, now, PER_SECOND)) {
			loop_unwatch(box->egress->loop, watch);
			loop_set_timer(box->egress->loop, &box->udp_due, next_second(box));
			return;
		}
		n = recvmsg(watch->fd, &msg, MSG_DONTWAIT);
		if (n < 0)
			return;
		if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
			continue;
		len = dns_stub_answer(box, (struct str){question, (size_t)n}, reply, &pass);
		keep_source(&msg);
		if (pass)
			dns_stub_pass_on(box, (struct str){question, (size_t)n}, &msg);
		if (!len)
			continue;
		part = (struct iovec){reply, len};
		if (sendmsg(watch->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			continue; // like a lost datagram
	}
}

fallible dns_stub_open(struct egress_box *box, int udp)
{
	int room = QUEUE_BYTES;

	box->udp = (struct watch){.fd = udp, .ready = on_udp};
	box->udp_due = (struct timer){.due = on_udp_due};
	if (udp >= 0)
		setsockopt(udp, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	return udp < 0 ? OK : loop_watch(box->egress->loop, &box->udp, EPOLLIN);
}

void dns_stub_close(struct egress_box *box)
{
	loop_drop_timer(box->egress->loop, &box->udp_due);
	loop_unwatch(box->egress->loop, &box->udp);
	fd_drop(&box->udp.fd);
}

static fallible next_question(struct conn *conn, struct buf *got, struct str *out, size_t *out_used)
{
	int64_t deadline = loop_now(conn->box->egress->loop) + HELLO_MS; // for the whole query

	for (;;) {
		enum dns_frame frame = dns_unframe(buf_view(got), out, out_used);
		char *room;
		size_t n = 0;

		if (frame == DNS_FRAME_DONE)
			return OK;
		room = frame == DNS_FRAME_MORE ? buf_space(got, 1024) : NULL;
		if (!room)
			return err_new(BAD_PEER, "bad_dns", "not a DNS query");
		TRY(stream_read(&conn->in, room, 1024, deadline, &n));
		if (!n)
			return err_new(BAD_PEER, "peer_gone", "the client closed the connection");
		buf_grew(got, n);
	}
}

void dns_stub_serve(struct conn *conn)
{
	auto_buf got = BUF_INIT(DNS_QUERY_MAX + 2048);

	for (int i = 0; i < TCP_QUESTIONS; i++) {
		uint8_t reply[2 + DNS_ANSWER_MAX];
		struct str message;
		auto_buf passed = BUF_INIT(MESSAGE_MAX);
		size_t used = 0, len;
		bool pass;
		auto_err err = next_question(conn, &got, &message, &used);

		while (!err && !burst_has_room(&conn->box->questions,
					       loop_now(conn->box->egress->loop), PER_SECOND))
			err = task_sleep_until(next_second(conn->box));
		if (err)
			return;
		len = dns_stub_answer(conn->box, message, reply + 2, &pass);
		if (pass)
			err = ask_host(conn->box, message, MESSAGE_MAX, &passed);
		buf_drop_front(&got, used);
		if (err || (!len && !passed.len))
			return;
		dns_frame(len ? len : passed.len, reply);
		err = stream_write(&conn->in, reply, len + 2, HELLO_MS);
		if (!err && !len)
			err = stream_write(&conn->in, passed.at, passed.len, HELLO_MS);
		if (err)
			return;
	}
}
