// The verb policy. The API replaces a policy as a whole: read, edit, send back. Secret values are
// never returned; a secret sent back without a value keeps its own.
#include "cli/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/secret.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/tty.h"
#include "lib/fields.h"

#define POLICY_MAX (4 << 20)
#define VALUE_MAX (64 * 1024)

// ------------------------------------------------------------------------------------- entries

// Is `text` an entry of `name`? A name without a port also matches entries with one.
static bool cli_policy_is_of(struct str text, const char *name)
{
	size_t len = strlen(name);

	return text.len >= len && !strncasecmp(text.at, name, len) &&
	       (text.len == len || (text.at[len] == ':' && text.at[text.len - 1] != ']' &&
				    (!strchr(name, ':') || name[len - 1] == ']')));
}

static bool is_denied(const struct call *call, struct str text)
{
	const char *name;

	for (size_t at = 0; call_next(call, OPT_DENY, &at, &name);)
		if (cli_policy_is_of(text, name))
			return true;
	return false;
}

static bool cli_policy_is_listed(const struct json *list, const char *text)
{
	for (size_t i = 0; list && i < json_count(list); i++) {
		struct str entry = json_chars(json_at(list, i));

		if (entry.len == strlen(text) && !strncasecmp(entry.at, text, entry.len))
			return true;
	}
	return false;
}

// The present entries that stay.
static void put_kept(struct json_out *out, const struct call *call, const struct json *list)
{
	for (size_t i = 0; list && i < json_count(list); i++)
		if (!is_denied(call, json_chars(json_at(list, i))))
			json_add_value(out, json_at(list, i));
}

static void put_added(struct json_out *out, const struct call *call, enum opt opt,
		      const struct json *list)
{
	const char *text;

	for (size_t at = 0; call_next(call, opt, &at, &text);)
		if (!cli_policy_is_listed(list, text))
			json_add_text(out, text);
}

static bool has_any(const struct json *list, const char *name)
{
	for (size_t i = 0; list && i < json_count(list); i++)
		if (cli_policy_is_of(json_chars(json_at(list, i)), name))
			return true;
	return false;
}

// In any list.
static bool cli_policy_is_known(const struct json *now, const char *name)
{
	const struct json *rules = json_get(now, "rules"), *secrets = json_get(now, "secrets");

	if (has_any(json_get(now, "allow"), name) || has_any(json_get(now, "inspect"), name))
		return true;
	for (size_t i = 0; rules && i < json_count(rules); i++)
		if (cli_policy_is_of(json_chars(json_get(json_at(rules, i), "name")), name))
			return true;
	for (size_t i = 0; secrets && i < json_count(secrets); i++)
		if (has_any(json_get(json_at(secrets, i), "hosts"), name))
			return true;
	return false;
}

static fallible check_denied(const struct call *call, const struct json *now, const char *mode)
{
	const char *name;

	for (size_t at = 0; call_next(call, OPT_DENY, &at, &name);) {
		if (!strcmp(mode, "all"))
			return err_hint(err_new(INVALID, "bad_value",
						"mode all lets everything out, %s too", name),
					"--mode allow lets out what --allow names");
		if (!now || !cli_policy_is_known(now, name))
			return err_hint(err_new(NOT_FOUND, "not_listed",
						"the policy does not name %s", name),
					"'cove policy %s' shows it", call->words[0]);
	}
	return OK;
}

// An entry without effect in this mode is kept for a later --mode allow.
static void warn_allowed(const struct call *call, const char *mode)
{
	const char *name;
	size_t at = 0;

	if (!strcmp(mode, "all") && call_next(call, OPT_ALLOW, &at, &name))
		print_note("mode all lets everything out: --allow %s changes nothing; "
			   "--mode allow lets out only what --allow names",
			   name);
}

static void put_mode(struct json_out *out, const struct call *call, const struct json *now,
		     const char **out_mode)
{
	const char *mode = call_value(call, OPT_NETWORK);
	const char *before = fields_text(now, "mode");

	if (!mode)
		mode = call_has(call, OPT_ALLOW) && (!*before || !strcmp(before, "off")) ? "allow"
		       : *before							 ? before
											 : "off";
	json_put_text(out, "mode", mode);
	*out_mode = mode;
}

// --------------------------------------------------------------------------------------- rules

// "GET,HEAD api.example.com/v1/*", "* api.example.com". Slices of the text.
struct rule {
	struct str methods; // "*": any
	struct str host, path;
};

static fallible read_rule(const char *text, struct rule *out)
{
	struct str rest = str_trim(str_of(text)), place;
	const char *slash;

	if (str_cut(&rest, ' ', &out->methods) && rest.at) {
		place = str_trim(rest);
		slash = memchr(place.at, '/', place.len);
		out->host = slash ? (struct str){place.at, (size_t)(slash - place.at)} : place;
		out->path = str_skip(place, out->host.len);
		if (out->methods.len && out->host.len && !memchr(place.at, ' ', place.len))
			return OK;
	}
	return err_hint(err_new(INVALID, "bad_value", "--rule '%s' is not a rule", text),
			"for example --rule 'GET,HEAD api.example.com/v1/*'");
}

static void put_rule(struct json_out *out, const struct rule *rule)
{
	struct str rest = rule->methods, method;

	json_begin(out, '{');
	json_put_str(out, "name", rule->host);
	if (!str_is(rest, "*")) {
		json_key(out, "methods");
		json_begin(out, '[');
		while (rest.len && str_cut(&rest, ',', &method))
			json_add_str(out, method);
		json_end(out, ']');
	}
	if (rule->path.len) {
		json_key(out, "paths");
		json_begin(out, '[');
		json_add_str(out, rule->path);
		json_end(out, ']');
	}
	json_end(out, '}');
}

static fallible cli_policy_put_rules(struct json_out *out, const struct call *call,
				     const struct json *list)
{
	const char *text;

	json_key(out, "rules");
	json_begin(out, '[');
	for (size_t i = 0; list && i < json_count(list); i++)
		if (!is_denied(call, json_chars(json_get(json_at(list, i), "name"))))
			json_add_value(out, json_at(list, i));
	for (size_t at = 0; call_next(call, OPT_RULE, &at, &text);) {
		struct rule rule = {0};

		TRY(read_rule(text, &rule));
		put_rule(out, &rule);
	}
	json_end(out, ']');
	return OK;
}

// Rules apply to inspected hosts only.
static fallible put_inspected(struct json_out *out, const struct call *call,
			      const struct json *list)
{
	const char *text;

	json_key(out, "inspect");
	json_begin(out, '[');
	put_kept(out, call, list);
	put_added(out, call, OPT_INSPECT, list);
	for (size_t at = 0; call_next(call, OPT_RULE, &at, &text);) {
		auto_free char *host = NULL;
		struct rule rule = {0};

		TRY(read_rule(text, &rule));
		host = mem_dup(rule.host.at, rule.host.len);
		if (!cli_policy_is_listed(list, host))
			json_add_text(out, host);
	}
	json_end(out, ']');
	return OK;
}

// ------------------------------------------------------------------------------------- secrets

// "NAME=VALUE@HOST,HOST", "NAME@HOST", "NAME@", and "NAME": a secret of the tenant.
struct secret {
	struct str name, value, hosts; // value.at == NULL: in our environment
	bool is_named;
};

static fallible read_secret(const char *text, struct secret *out)
{
	const char *at = strrchr(text, '@');
	struct str rest;

	if (at) {
		out->hosts = str_of(at + 1);
		rest = (struct str){text, (size_t)(at - text)};
		str_cut(&rest, '=', &out->name);
		out->value = rest;
		if (out->name.len)
			return OK;
	} else if (*text && !strchr(text, '=')) {
		*out = (struct secret){.name = str_of(text), .is_named = true};
		return OK;
	}
	return err_hint(err_new(INVALID, "bad_value", "--secret names no secret and host"),
			"NAME@HOST takes the value from our variable NAME, NAME=-@HOST from "
			"standard input");
}

static fallible cli_policy_read_value(const struct secret *secret, struct buf *out)
{
	auto_free char *name = mem_dup(secret->name.at, secret->name.len);
	const char *own;

	if (str_is(secret->value, "-"))
		return tty_read_secret("Value", true, out);
	if (secret->value.at) {
		buf_str(out, secret->value);
		return OK;
	}
	own = getenv(name);
	if (!own || !*own)
		return err_hint(err_new(INVALID, "no_value", "we have no variable %s", name),
				"%s=-@HOST reads the value from standard input", name);
	buf_text(out, own);
	return OK;
}

static fallible put_secret(struct json_out *out, const struct secret *secret)
{
	auto_secret_buf value = BUF_SECRET(VALUE_MAX);
	struct str rest = secret->hosts, host;

	TRY(cli_policy_read_value(secret, &value));
	json_begin(out, '{');
	json_put_str(out, "name", secret->name);
	json_put_str(out, "value", buf_view(&value));
	json_key(out, "hosts");
	json_begin(out, '[');
	while (rest.len && str_cut(&rest, ',', &host))
		json_add_str(out, host);
	json_end(out, ']');
	json_end(out, '}');
	return OK;
}

static bool is_replaced(const struct call *call, struct str name)
{
	const char *text;

	for (size_t at = 0; call_next(call, OPT_SECRET, &at, &text);)
		if (name.len <= strlen(text) && !memcmp(text, name.at, name.len) &&
		    strchr("=@", text[name.len])) // the end of the text, too
			return true;
	return false;
}

static void put_old_secret(struct json_out *out, const struct call *call, const struct json *secret)
{
	const struct json *hosts;
	bool is_left = false;

	if (json_type(secret) == JSON_STRING) {
		if (!is_replaced(call, json_chars(secret)))
			json_add_str(out, json_chars(secret));
		return;
	}
	hosts = json_get(secret, "hosts");
	for (size_t i = 0; hosts && i < json_count(hosts); i++)
		is_left |= !is_denied(call, json_chars(json_at(hosts, i)));
	if (!is_left || is_replaced(call, json_chars(json_get(secret, "name"))))
		return;
	json_begin(out, '{');
	json_put_str(out, "name", json_chars(json_get(secret, "name")));
	json_key(out, "hosts");
	json_begin(out, '[');
	put_kept(out, call, hosts);
	json_end(out, ']');
	json_end(out, '}');
}

static fallible cli_policy_put_secrets(struct json_out *out, const struct call *call,
				       const struct json *list)
{
	const char *text;

	json_key(out, "secrets");
	json_begin(out, '[');
	for (size_t i = 0; list && i < json_count(list); i++)
		put_old_secret(out, call, json_at(list, i));
	for (size_t at = 0; call_next(call, OPT_SECRET, &at, &text);) {
		struct secret secret = {0};

		TRY(read_secret(text, &secret));
		if (secret.is_named)
			json_add_str(out, secret.name);
		else if (secret.hosts.len)
			TRY(put_secret(out, &secret));
	}
	json_end(out, ']');
	return OK;
}

// ------------------------------------------------------------------------------------- budgets

static const struct {
	const char *key, *word; // the field of the API; another word for it
	bool is_bytes;
} budgets[] = {
	{"requests", NULL, false}, {"connections", NULL, false}, {"bytesOut", NULL, true},
	{"bytesIn", NULL, true},   {"perSecond", "rate", false},
};
#define BUDGETS (sizeof(budgets) / sizeof(*budgets))

// "requests=100", "bytesIn=10m", "rate=none". *out_number: of a budget that is set.
static fallible read_budget(const char *text, size_t *out_which, bool *out_none,
			    uint64_t *out_number)
{
	struct str value = str_of(text), name;
	size_t i = 0;

	str_cut(&value, '=', &name);
	while (i < BUDGETS && !str_is(name, budgets[i].key) &&
	       !(budgets[i].word && str_is(name, budgets[i].word)))
		i++;
	*out_which = i;
	*out_none = str_is(value, "none");
	if (i < BUDGETS && value.at &&
	    (*out_none || (budgets[i].is_bytes ? str_to_bytes(value, out_number)
					       : str_to_u64(value, 0, INT64_MAX, out_number))))
		return OK;
	return err_hint(err_new(INVALID, "bad_value", "--budget '%s' is not a budget", text),
			"requests=N, connections=N, bytesOut=SIZE, bytesIn=SIZE, rate=N for each "
			"second; none takes it away");
}

// The last value of the command line, else the present one.
static fallible cli_policy_put_budgets(struct json_out *out, const struct call *call,
				       const struct json *now)
{
	bool is_given[BUDGETS] = {0}, is_none[BUDGETS] = {0};
	uint64_t numbers[BUDGETS] = {0};
	const char *text;

	for (size_t at = 0; call_next(call, OPT_BUDGET, &at, &text);) {
		uint64_t number = 0;
		bool none = false;
		size_t i = 0;

		TRY(read_budget(text, &i, &none, &number));
		is_given[i] = true;
		is_none[i] = none;
		numbers[i] = number;
	}
	json_key(out, "budgets");
	json_begin(out, '{');
	for (size_t i = 0; i < BUDGETS; i++) {
		const struct json *old = json_get(now, budgets[i].key);

		if (is_given[i] && !is_none[i]) {
			json_put_int(out, budgets[i].key, (int64_t)numbers[i]);
		} else if (!is_given[i] && old) {
			json_key(out, budgets[i].key);
			json_add_value(out, old);
		}
	}
	json_end(out, '}');
	return OK;
}

fallible cli_policy_edit(const struct call *call, const struct json *now, struct buf *out)
{
	struct json_out json = json_to(out);
	const char *mode;

	json_begin(&json, '{');
	put_mode(&json, call, now, &mode);
	TRY(check_denied(call, now, mode));
	warn_allowed(call, mode);
	json_key(&json, "allow");
	json_begin(&json, '[');
	put_kept(&json, call, json_get(now, "allow"));
	put_added(&json, call, OPT_ALLOW, json_get(now, "allow"));
	json_end(&json, ']');
	TRY(put_inspected(&json, call, json_get(now, "inspect")));
	TRY(cli_policy_put_budgets(&json, call, json_get(now, "budgets")));
	TRY(cli_policy_put_secrets(&json, call, json_get(now, "secrets")));
	TRY(cli_policy_put_rules(&json, call, json_get(now, "rules")));
	json_end(&json, '}');
	return OK;
}

// ------------------------------------------------------------------------------------- the verb

static void show_list(const char *title, const struct json *list)
{
	for (size_t i = 0; list && i < json_count(list); i++)
		print_line("%-8s " STR_FMT, title, STR_ARG(json_chars(json_at(list, i))));
}

static void cli_policy_put_words(const struct json *list, const char *none, struct buf *out)
{
	for (size_t i = 0; list && i < json_count(list); i++)
		buf_fmt(out, "%s" STR_FMT, i ? "," : " ", STR_ARG(json_chars(json_at(list, i))));
	if (!list)
		buf_fmt(out, " %s", none);
}

static void cli_policy_show(const struct json *network)
{
	const struct json *limits = json_get(network, "budgets");
	const struct json *rules = json_get(network, "rules");
	const struct json *secrets = json_get(network, "secrets");

	print_line("%-8s %s", "mode", fields_text(network, "mode"));
	show_list("allow", json_get(network, "allow"));
	show_list("inspect", json_get(network, "inspect"));
	for (size_t i = 0; limits && i < BUDGETS; i++) {
		uint64_t number = 0;

		if (!json_get(limits, budgets[i].key))
			continue;
		err_free(json_u64(json_get(limits, budgets[i].key), "budgets", 0, INT64_MAX,
				  &number));
		print_line("%-8s %s %llu", "budget", budgets[i].key, (unsigned long long)number);
	}
	for (size_t i = 0; rules && i < json_count(rules); i++) {
		auto_buf words = BUF_INIT(REMOTE_REPLY_MAX);

		cli_policy_put_words(json_get(json_at(rules, i), "methods"), "*", &words);
		cli_policy_put_words(json_get(json_at(rules, i), "paths"), "*", &words);
		print_line("%-8s %s%s", "rule", fields_text(json_at(rules, i), "name"),
			   words.at ? words.at : "");
	}
	for (size_t i = 0; secrets && i < json_count(secrets); i++) {
		auto_buf words = BUF_INIT(REMOTE_REPLY_MAX);

		if (json_type(json_at(secrets, i)) == JSON_STRING) {
			print_line("%-8s %s of the tenant", "secret",
				   json_chars(json_at(secrets, i)).at);
			continue;
		}
		cli_policy_put_words(json_get(json_at(secrets, i), "hosts"), "nobody", &words);
		print_line("%-8s %s for%s", "secret", fields_text(json_at(secrets, i), "name"),
			   words.at ? words.at : "");
	}
}

static bool is_change(const struct call *call)
{
	static const enum opt changes[] = {OPT_ALLOW, OPT_DENY,	  OPT_NETWORK, OPT_INSPECT,
					   OPT_RULE,  OPT_SECRET, OPT_BUDGET};

	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++)
		if (call_has(call, changes[i]))
			return true;
	return false;
}

static fallible cli_policy_change(struct call *call, struct remote *remote, const char *path,
				  const struct json *now, struct buf *text, struct json **out)
{
	auto_secret_buf network = BUF_SECRET(POLICY_MAX);
	auto_secret_buf body = BUF_SECRET(POLICY_MAX);
	struct json_out json = json_to(&body);

	TRY(cli_policy_edit(call, now, &network));
	json_begin(&json, '{');
	json_key(&json, "network");
	json_add_raw(&json, buf_view(&network));
	json_end(&json, '}');
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "bad_value", "the policy is too large");
	return remote_ask(remote, "PATCH", path, &body, text, out);
}

fallible cli_policy(struct call *call)
{
	auto_free char *path = remote_path(BOXES_PATH, call->words[0], "");
	auto_buf before = BUF_INIT(REMOTE_REPLY_MAX), after = BUF_INIT(REMOTE_REPLY_MAX);
	bool changes = is_change(call);
	auto_remote remote = {0};
	auto_json found = NULL;
	auto_json made = NULL;
	const struct json *network;

	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "GET", path, NULL, &before, &found));
	if (changes)
		TRY(cli_policy_change(call, &remote, path, json_get(found, "network"), &after,
				      &made));
	network = json_get(changes ? made : found, "network");
	if (call_has(call, OPT_JSON))
		print_json(print_member(buf_view(changes ? &after : &before), "network"));
	else if (network)
		cli_policy_show(network);
	return OK;
}
