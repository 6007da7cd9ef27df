// Messages to a service manager that started us with NOTIFY_SOCKET, as sd_notify(3) says.
#pragma once

// "READY=1", "STOPPING=1": one datagram. Nothing happens where nobody asked.
void notify_send(const char *text);
