// Checks of the host: what the warden found that it can do, settings that weaken sandboxes, and the
// health of now. `cove doctor` tries each feature of the kernel, for which the daemon has no right;
// the settings are the same. And the list of hosts: there is one.
#include <string.h>
#include <unistd.h>

#include "api/handlers.h"
#include "api/stats.h"
#include "gateway/gateway.h"
#include "manager/registry_logins.h"
#include "monitor/monitor.h"

#define REPLY_MAX 65536

struct doctor_feature {
	const char *feature;
	bool required, ok;
	const char *found, *without, *fix;
};

static void put_feature(struct json_out *out, const struct doctor_feature *row)
{
	json_begin(out, '{');
	json_put_text(out, "feature", row->feature);
	json_put_bool(out, "required", row->required);
	json_put_bool(out, "ok", row->ok);
	json_put_text(out, "found", row->found);
	json_put_text(out, "without", row->without);
	json_put_text(out, "fix", row->ok ? NULL : row->fix);
	json_end(out, '}');
}

static void put_features(struct json_out *out, const struct order_host *host)
{
	const struct doctor_feature rows[] = {
		{"warden", true, host != NULL, host ? "it runs" : "it does not answer",
		 "no sandbox can be made or changed", "see the log, and run 'cove doctor'"},
		{"cgroups", true, host != NULL, host ? host->cgroup : "unknown",
		 "sandboxes have no limits", "run 'cove doctor'"},
		{"network", false, host && strcmp(host->net, "none") != 0,
		 host ? host->net : "unknown", "sandboxes have no network",
		 "run 'cove doctor': it says what sk_lookup or nft needs"},
		{"limits of disks", false, host && host->can_limit_disk,
		 host ? host->disk : "unknown", "a limit on a sandbox's disk is refused",
		 "give the host btrfs, or loop devices and mke2fs"},
		{"limits on the number of files", false, host && host->can_limit_inodes,
		 host ? host->disk : "unknown", "a limit on a sandbox's files is refused",
		 "give the host loop devices and mke2fs"},
	};

	json_put_begin(out, "features", '[');
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		put_feature(out, &rows[i]);
	json_end(out, ']');
}

static void put_warning(void *arg, const char *what, const char *fix)
{
	struct json_out *out = arg;

	json_begin(out, '{');
	json_put_text(out, "message", what);
	json_put_text(out, "fix", fix);
	json_end(out, '}');
}

static void put_mirror(void *arg, struct str host, struct str url, const struct err *err)
{
	struct json_out *out = arg;

	json_begin(out, '{');
	json_put_str(out, "registry", host);
	json_put_str(out, "url", url);
	json_put_bool(out, "ok", !err);
	json_put_text(out, "message", err ? err_message(err) : NULL);
	json_put_text(out, "hint", err ? err_hint_of(err) : NULL);
	json_end(out, '}');
}

fallible api_doctor(struct http *x)
{
	struct gateway *gateway = gateway_of(x);
	auto_free struct monitor_health *health = mem_new_of(struct monitor_health);
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct manager_view view;

	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	monitor_health(gateway->monitor, health);
	view = manager_look(gateway->manager);
	json_begin(&out, '{');
	json_put_bool(&out, "ok", view.host && !health->is_unhealthy);
	json_put_time(&out, "time", clock_wall_ms());
	json_put_text(&out, "version", gateway->version);
	put_features(&out, view.host);
	json_put_begin(&out, "warnings", '[');
	gateway->look_at_host(gateway->host_settings, put_warning, &out);
	json_end(&out, ']');
	json_put_begin(&out, "mirrors", '[');
	registry_mirrors_try(gateway->manager, put_mirror, &out);
	json_end(&out, ']');
	json_put_text(&out, "status", monitor_health_word(health));
	monitor_put_reasons(&out, health);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_nodes(struct http *x)
{
	struct gateway *gateway = gateway_of(x);
	auto_free struct monitor_health *health = mem_new_of(struct monitor_health);
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	char name[65] = "";

	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	monitor_health(gateway->monitor, health);
	(void)gethostname(name, sizeof(name) - 1); // a longer one is cut
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	json_begin(&out, '{');
	json_put_text(&out, "id", "local");
	json_put_text(&out, "name", name);
	json_put_text(&out, "status", monitor_health_word(health));
	json_put_text(&out, "version", gateway->version);
	json_put_int(&out, "uptimeMs", loop_now(gateway->loop) - gateway->started_ms);
	json_key(&out, "stats");
	stats_put_host(&out, gateway, gateway_who(x));
	json_end(&out, '}');
	json_end(&out, ']');
	json_put_text(&out, "cursor", NULL);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}
