// An HTTP client for the command line and libcove. One connection, kept alive, one request at a
// time; bodies stream both ways.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "codec/http1.h"
#include "codec/url.h"
#include "http/wsock.h"
#include "loop/loop.h"

struct http_client;

// "http://127.0.0.1:8484", or "unix:/run/cove/api.sock".
#define HTTP_CLIENT_UNIX "unix:"
fallible http_client_open(struct loop *loop, struct str base_url, struct str bearer,
			  struct http_client **out); // connects at the first request
void http_client_free(struct http_client *client);
static inline void auto_http_client_(struct http_client **client)
{
	http_client_free(*client);
}
#define auto_http_client on_exit_call(auto_http_client_) struct http_client *

// Sends the request and reads the reply's head; *out_status is its status. `body` may be empty (at
// == NULL: none). A connection that the server closed while idle is reopened once.
fallible http_client_ask(struct http_client *client, const char *method, const char *path,
			 struct str body, int *out_status);
// The same with a body in pieces: begin, write any number of times, finish to get the status. A
// server that answers early (413, 401) ends the writing: finish then returns its status.
fallible http_client_begin(struct http_client *client, const char *method, const char *path,
			   const char *type);
fallible http_client_write(struct http_client *client, const void *bytes, size_t len);
fallible http_client_finish(struct http_client *client, int *out_status);
// The reply's body: the next bytes (*out = 0 at its end), or all of it into `out`.
fallible http_client_read(struct http_client *client, void *room, size_t size, size_t *out);
fallible http_client_body(struct http_client *client, struct buf *out);
int http_client_fd(const struct http_client *client); // to be polled; -1: not connected
// Requests a WebSocket. *out is NULL when the server answers with another status than 101: that is
// then an answer like any other. With a socket the client cannot be used otherwise; it must outlive
// the socket's wsock_end(). BAD_PEER bad_reply.
fallible http_client_upgrade(struct http_client *client, const char *path,
			     const struct wsock_options *options, int *out_status,
			     struct wsock **out);
struct str http_client_field(const struct http_client *client, const char *name);
void http_client_header(struct http_client *client, const char *name, struct str value); // next ask
