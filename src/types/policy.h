// The network policy of a box: the field `network` of a create and of a PATCH, and its evaluation.
// A policy is read as a whole and never changed, only replaced. Values of secrets are never
// written: policy_write() and policy_save() omit them. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"
#include "types/budget.h"
#include "types/hostname.h"

#define POLICY_ALLOW_MAX 1024
#define POLICY_INSPECT_MAX 256
#define POLICY_RULES_MAX 256
#define POLICY_SECRETS_MAX 64
#define POLICY_WORDS_MAX 64 // methods or paths of one rule, hosts of one secret
#define POLICY_SECRET_NAME_MAX 64
#define POLICY_SECRET_VALUE_MAX (16 * 1024)
#define POLICY_PLACEHOLDER_LEN 44 // "cove-secret-" and 32 hex digits

enum policy_mode { POLICY_OFF, POLICY_ALLOW, POLICY_ALL, POLICY_MODES };
const char *policy_mode_word(enum policy_mode mode);

// "name", "*.suffix", "name:port", "1.2.3.4", "[::1]:443", "10.0.0.0/8", "[fd00::]/8:5432". A
// suffix needs a label before it.
struct policy_host {
	char *text;	// as it is shown; owned
	char *name;	// normalised, without "*."; owned
	bool is_suffix; // "*.name"
	bool is_literal;
	bool is_range; // a literal with "/BITS"
	uint16_t port; // 0: 80 and 443 where ports count; any port of a range
};

// Methods and paths of requests to inspected hosts, also without TLS. No methods, or no paths: any.
struct policy_rule {
	struct policy_host host; // without a port
	char **methods;		 // NULL-ended, upper case; NULL: any
	char **paths;		 // "/exact" or "/prefix*"; NULL: any
};

// How a secret gets into a request: in place of its placeholder, as a header, as a query parameter.
enum policy_form { POLICY_PLACEHOLDER, POLICY_HEADER, POLICY_QUERY };

struct policy_secret {
	char *name;	   // of the environment variable
	char *placeholder; // what the box has instead
	char *value;	   // NULL: unknown here. Wiped when freed
	char *sealed;	   // the encrypted value, as stored; NULL: not yet
	struct policy_host *hosts;
	size_t host_count;
	bool is_named; // a secret of the tenant: value, hosts and the fields below are copied from
		       // it
	enum policy_form form;
	char *field;  // of the header or query parameter; NULL: form placeholder
	char *format; // of the header's value, with "{}" for the secret; NULL: the value alone
	int64_t expires_ms; // wall clock; 0: never
};
void policy_secret_done(struct policy_secret *secret);
#define auto_policy_secret on_exit_call(policy_secret_done) struct policy_secret

struct policy {
	enum policy_mode mode;
	struct policy_host *allow, *inspect;
	size_t allow_count, inspect_count;
	struct policy_rule *rules;
	size_t rule_count;
	struct policy_secret *secrets;
	size_t secret_count;
	struct budget_limits budgets;
};

#define POLICY_INIT(the_mode) ((struct policy){.mode = (the_mode), .budgets = BUDGET_UNLIMITED})
void policy_done(struct policy *policy);
#define auto_policy on_exit_call(policy_done) struct policy
// Moves it to the heap: `from` becomes POLICY_OFF.
struct policy *policy_new(struct policy *from);
void policy_free(struct policy *policy);			   // takes NULL
void policy_copy(const struct policy *policy, struct policy *out); // with the values

// Reads {mode, allow, inspect, budgets, secrets, rules}; NULL: the default mode, everything else
// empty. INVALID bad_field, unknown_field, with the position and a hint. Each secret gets a
// placeholder; one without a value must be known already: see policy_inherit(). An entry of
// `secrets` that is a string names a secret of the tenant: see policy_fill_named(). The caller owns
// *out.
fallible policy_read(const struct json *network, enum policy_mode normal, struct policy *out);
// Copies values and placeholders of secrets from the replaced policy to those that came without,
// for the hosts that they had. INVALID secret_without_value. `old` may be NULL.
fallible policy_inherit(struct policy *fresh, const struct policy *old);

// In the form of policy_read(), without values: for everybody who may see the sandbox.
void policy_write(struct json_out *out, const struct policy *policy);
// The same with placeholders and encrypted values, for the store; policy_load() reads it. A secret
// then has no value until policy_set_secret().
void policy_save(struct json_out *out, const struct policy *policy);
fallible policy_load(const struct json *saved, struct policy *out);
bool policy_set_secret(struct policy *policy, const char *name, struct str value);

// Adds references to secrets of the tenant: a list of names, as `secrets` of a create. NULL: none.
// INVALID bad_field.
fallible policy_add_named(const struct json *names, struct policy *policy);
// Copies value, hosts and form of a tenant's secret to the entry that names it. `from` NULL: the
// secret does not exist (any more): nothing is sent for it.
void policy_fill_named(struct policy_secret *entry, const struct policy_secret *from);

// A secret of a tenant. policy_secret_read() reads the body of a PUT: {value, hosts, header, query,
// expiresAt}. A value that is missing is copied from `old`, for the hosts that it had. INVALID
// bad_field, secret_without_value. policy_secret_write() omits the value; `is_saved` adds the
// encrypted one, for policy_secret_load().
fallible policy_secret_name(struct str name); // INVALID bad_field
fallible policy_secret_read(const struct json *body, const char *name,
			    const struct policy_secret *old, struct policy_secret *out);
void policy_secret_write(struct json_out *out, const struct policy_secret *secret, bool is_saved);
fallible policy_secret_load(const struct json *saved, const char *name, struct policy_secret *out);

struct policy_verdict {
	bool allow;
	bool inspect;	    // its TLS is to be terminated here
	const char *rule;   // the entry that allowed it, as written; "all"; NULL: none
	const char *reason; // of a denial, a stable word: mode_off, not_allowed, port_not_allowed,
			    // no_name, ech; the judge of connections adds not_inspected,
			    // not_http, not_counted
};

// Whether the box may connect to `name` (as hostname_read() gives it; "" or BAD: none) on `port`.
// The texts live as long as the policy.
struct policy_verdict policy_judge(const struct policy *policy, enum hostname_kind kind,
				   const char *name, uint16_t port);
// The same for a client with an encrypted hello: allowed only where every name is.
struct policy_verdict policy_judge_ech(const struct policy *policy, enum hostname_kind kind,
				       const char *name, uint16_t port);
// Whether some port of it is allowed. Used by the DNS stub.
bool policy_knows(const struct policy *policy, enum hostname_kind kind, const char *name);
bool policy_inspects(const struct policy *policy, const char *name);
bool policy_sees(const struct policy *policy); // any name is inspected
// Whether rules restrict requests to this host. A rule with any method and any path restricts
// nothing.
bool policy_has_rules(const struct policy *policy, const char *name);
// Judges a request with its target in origin-form. *out_reason: method_not_allowed,
// path_not_allowed, path_ambiguous. True if no rule names the host.
bool policy_judge_request(const struct policy *policy, const char *name, struct str method,
			  struct str target, const char **out_reason);
// Whether the secret has a value and may be sent to `name` now (wall clock).
bool policy_secret_is_for(const struct policy_secret *secret, const char *name, int64_t now_ms);
// The meaning of a reason as text.
const char *policy_words(const char *reason);
// The command that would allow what was denied: "cove policy BOX --allow NAME:PORT" and so on.
// Empty if no policy would.
void policy_hint(struct buf *out, const char *box, const char *name, uint16_t port,
		 const char *reason);
