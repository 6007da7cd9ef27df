#include "fleet/alert.h"

#include "base/log.h"

void alert_tell(const char *alert, const char *severity, const char *what, const char *box,
		struct err *failed)
{
	auto_err err = failed;

	log_event(LOG_ERROR, "alert", "alert", alert, "severity", severity, "what", what, "sandbox",
		  box, "trail", err ? err_trail(err) : NULL, NULL);
}
