"""The plots of a report. Importing what draws them loads matplotlib, so nothing is re-exported here:
who draws imports the file where it draws.
"""
