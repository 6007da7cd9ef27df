// The only server of names that a box can reach, whatever address it asks: it knows the names that
// the policy knows and gives each an address of 198.18.0.0/15, which stands for that name in this
// box. Nothing is looked up here: a question never leaves the host, so it carries nothing out.
//
// syscalls: recvmsg sendmsg
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/mem.h"
#include "egress/inner.h"
#include "model/dns.h"
#include "os/fd.h"

#define TURN_MAX 64	 // questions of one turn
#define PER_SECOND 100	 // then silence
#define TCP_QUESTIONS 64 // of one connection

// 0: silence.
static size_t answer(struct egress_box *box, struct str message, uint8_t room[DNS_ANSWER_MAX])
{
	struct dns_query query;
	struct address given;

	if (box->policy.mode == POLICY_OFF ||
	    !burst_has_room(&box->questions, loop_now(box->egress->loop), PER_SECOND) ||
	    !dns_read(message, &query))
		return 0;
	if (query.fault != DNS_OK)
		return dns_answer(&query, query.fault, NULL, room);
	if (query.kind != HOSTNAME_NAME || !policy_knows(&box->policy, query.kind, query.name)) {
		// Of the two questions that resolvers ask at once, one is written down.
		if (query.kind == HOSTNAME_NAME && query.type == DNS_A)
			judge_note_name(box, query.name);
		return dns_answer(&query, DNS_NO_NAME, NULL, room);
	}
	if (query.type != DNS_A || query.class != 1)
		return dns_answer(&query, DNS_OK, NULL, room);
	if (!box->names)
		box->names = names_new(NAMES_MAX);
	names_give(box->names, query.name, &given);
	return dns_answer(&query, DNS_OK, &given, room);
}

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo))];
};

// The reply comes from the address that was asked: what else is in there is not ours to send.
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

static void on_udp(struct watch *watch, uint32_t events)
{
	struct egress_box *box = link_of(watch, struct egress_box, udp);

	(void)events;
	for (int i = 0; i < TURN_MAX; i++) {
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
		ssize_t n = recvmsg(watch->fd, &msg, MSG_DONTWAIT);
		size_t len;

		if (n < 0)
			return;
		if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
			continue;
		len = answer(box, (struct str){question, (size_t)n}, reply);
		if (!len)
			continue;
		keep_source(&msg);
		part = (struct iovec){reply, len};
		if (sendmsg(watch->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			continue; // as any datagram may be lost
	}
}

fallible stub_open(struct egress_box *box, int udp)
{
	box->udp = (struct watch){.fd = udp, .ready = on_udp};
	return udp < 0 ? OK : loop_watch(box->egress->loop, &box->udp, EPOLLIN);
}

void stub_close(struct egress_box *box)
{
	loop_unwatch(box->egress->loop, &box->udp);
	fd_drop(&box->udp.fd);
}

static fallible next_question(struct conn *conn, struct buf *got, struct str *out, size_t *out_used)
{
	int64_t deadline = loop_now(conn->box->egress->loop) + HELLO_MS; // of the whole question

	for (;;) {
		enum dns_frame frame = dns_unframe(buf_view(got), out, out_used);
		char *room;
		size_t n = 0;

		if (frame == DNS_FRAME_DONE)
			return OK;
		room = frame == DNS_FRAME_MORE ? buf_space(got, 1024) : NULL;
		if (!room)
			return err_new(BAD_PEER, "bad_dns", "that is no question");
		TRY(stream_read(&conn->in, room, 1024, deadline, &n));
		if (!n)
			return err_new(BAD_PEER, "peer_gone", "the client has hung up");
		buf_grew(got, n);
	}
}

void stub_serve(struct conn *conn)
{
	auto_buf got = BUF_INIT(DNS_QUERY_MAX + 2048);

	for (int i = 0; i < TCP_QUESTIONS; i++) {
		uint8_t reply[2 + DNS_ANSWER_MAX];
		struct str message;
		size_t used = 0, len;
		auto_err err = next_question(conn, &got, &message, &used);

		if (err)
			return;
		len = answer(conn->box, message, reply + 2);
		buf_drop_front(&got, used);
		if (!len)
			return;
		dns_frame(len, reply);
		err = stream_write(&conn->in, reply, len + 2, HELLO_MS);
		if (err)
			return;
	}
}
