// syscalls: socket bind connect close sendto recvfrom sendmsg recvmsg sendmmsg poll ppoll ioctl
// syscalls: getsockname getpeername setsockopt fcntl getuid getpid uname statx
#include "door/outward.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/weak.h"
#include "loop/dial.h"
#include "loop/offload.h"
#include "model/address.h"

#define FOUND_MAX 8
#define NAME_MAX_BYTES 253
// A name server may be as slow as its owner likes, and who waits for it is a worker that the files
// of all tenants need.
#define LOOKUPS_MAX 8

struct lookup {
	char name[NAME_MAX_BYTES + 1];
	struct address found[FOUND_MAX];
	size_t count;
};

static int looking;

static void take_found(struct lookup *lookup, const struct sockaddr *from)
{
	struct address *to = &lookup->found[lookup->count];

	*to = (struct address){.is_v6 = from->sa_family == AF_INET6};
	if (from->sa_family == AF_INET)
		memcpy(to->at, &((const struct sockaddr_in *)from)->sin_addr, 4);
	else if (from->sa_family == AF_INET6)
		memcpy(to->at, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
	else
		return;
	lookup->count++;
}

static void look_up(void *arg)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
	struct lookup *lookup = arg;

	if (getaddrinfo(lookup->name, NULL, &hints, &list) != 0)
		return;
	for (struct addrinfo *at = list; at && lookup->count < FOUND_MAX; at = at->ai_next)
		take_found(lookup, at->ai_addr);
	freeaddrinfo(list);
}

// What can be bound to is an address of this host.
static bool is_of_host(const struct address *address)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	auto_fd fd = socket(address->is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(&v4.sin_addr, address->at, 4);
	memcpy(&v6.sin6_addr, address->at, 16);
	return fd < 0 || bind(fd, address->is_v6 ? (void *)&v6 : (void *)&v4,
			      address->is_v6 ? sizeof(v6) : sizeof(v4)) == 0;
}

static bool may_reach(const struct outward *outward, const struct address *address, uint16_t port)
{
	return weak(OUTWARD) || address_is_listed(outward->exceptions, address, port) ||
	       (address_is_global(address) && !is_of_host(address));
}

static fallible find(const struct outward *outward, struct str host, struct lookup *lookup)
{
	if (!host.len || host.len > NAME_MAX_BYTES || memchr(host.at, 0, host.len))
		return err_new(INVALID, "no_name", "that is no name of a host");
	if (address_read(host, &lookup->found[0]) ||
	    address_of_name(outward->hosts, host, &lookup->found[0])) {
		lookup->count = 1;
		return OK;
	}
	if (looking == LOOKUPS_MAX)
		return err_hint(err_new(EXHAUSTED, "names_busy",
					"%d names are being looked up already", LOOKUPS_MAX),
				"try again in a moment");
	memcpy(lookup->name, host.at, host.len);
	looking++;
	offload_run(look_up, lookup);
	looking--;
	if (lookup->count)
		return OK;
	return err_new(BAD_PEER, "no_name", "there is no host of the name '" STR_FMT "'",
		       STR_ARG(host));
}

fallible outward_open(const struct outward *outward, struct loop *loop, struct str host,
		      uint16_t port, int64_t deadline, struct stream *out)
{
	struct lookup lookup = {0};
	auto_err err = NULL;
	char text[ADDRESS_TEXT];

	TRY(find(outward, host, &lookup));
	for (size_t i = 0; i < lookup.count; i++) {
		if (!may_reach(outward, &lookup.found[i], port))
			continue;
		err_free(take_ptr(err));
		address_write(&lookup.found[i], text);
		err = dial_tcp(loop, str_of(text), port, deadline, out);
		if (!err)
			return OK;
		if (err_kind(err) == ERR_CANCELLED)
			return take_ptr(err);
	}
	if (!err)
		return err_hint(err_new(FORBIDDEN, "not_global",
					"'" STR_FMT "' leads to this host or into its own networks",
					STR_ARG(host)),
				"the operator may list the address in egress-exceptions");
	return err_new(BAD_PEER, "no_server", "nobody answers at '" STR_FMT "' port %u",
		       STR_ARG(host), port);
}
