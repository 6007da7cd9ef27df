// One delivery of a notice: a POST to a URL, or a message to an SMTP relay. Waits, at most
// REACH_MS.
#pragma once

#include "loop/loop.h"
#include "types/sink.h"

struct trust;

struct delivery {
	struct loop *loop;
	struct trust *trust;
	struct str hosts; // names that the operator lists
	const struct sink *sink;
	struct str secret;   // of a webhook: signs; of e-mail: the password; empty: none
	const char *id;	     // of the delivery: the same in every attempt
	const char *subject; // of e-mail
	struct str body;
};

// BAD_PEER refused: the server answered, and not with success; else the errors of the connection.
fallible delivery_post(const struct delivery *delivery);
fallible delivery_mail(const struct delivery *delivery);
