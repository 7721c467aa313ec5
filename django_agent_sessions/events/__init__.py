"""Stream session changes to clients without holding a database connection.

``session_states`` reads how far sessions are, ``hub`` polls them for all streams of a process,
``postgresql_listener`` receives notifications, ``cursor`` is the position of a stream, and
``reading`` reads the events after a cursor.
"""
